"""``python -m mirror`` is the command ``mirror``."""

from mirror.cli import main

if __name__ == "__main__":
    main()
