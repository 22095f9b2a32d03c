"""``python -m mirror`` is the command ``mirror``."""


def main() -> None:
    """Run the command line; Ctrl-C before it is loaded ends it as one, without a traceback."""
    try:
        from mirror.cli import main as run  # takes seconds on a busy machine

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
