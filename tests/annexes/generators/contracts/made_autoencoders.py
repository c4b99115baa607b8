"""What the small autoencoders of these tests share."""

from strobe.core.labels import LabelSpace

PETS = LabelSpace.of_names("pets", ["cat", "dog"])
BLOCKS = {
    "block_out_channels": (8, 16), "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2, "norm_num_groups": 4,
}  # fmt: skip
