"""What tests of the report in a browser share."""


def until(page, expression):
    """Wait for it by asking again: the page's own policy forbids what `wait_for_function` does where it must wait."""
    for _ in range(3000):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never came true: {expression}")
