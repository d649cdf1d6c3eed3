"""``python -m cli``: the command ``thoth``."""

from cli.main import main

if __name__ == "__main__":
    main()
