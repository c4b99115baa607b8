"""A plugin for strobe: a provider of models, an import format and an export format."""
