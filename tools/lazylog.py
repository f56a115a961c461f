"""A log for what runs in a server's first second: the library behind it is imported when the first line is written."""

from __future__ import annotations


class LazyLog:
    """Writes through structlog as it is configured by then; events and facts, never a word of content."""

    def info(self, event: str, **facts: object) -> None:
        """Log that something happened that an operator may want to know."""
        import structlog

        structlog.get_logger().info(event, **facts)

    def warning(self, event: str, **facts: object) -> None:
        """Log that something went wrong."""
        import structlog

        structlog.get_logger().warning(event, **facts)

    def error(self, event: str, **facts: object) -> None:
        """Log what an operator has to do something about."""
        import structlog

        structlog.get_logger().error(event, **facts)
