"""How `make lab` starts JupyterLab: the notebooks that come with the program are saved without outputs."""

from mirror.drill.saving import without_outputs

c = get_config()  # type: ignore[name-defined]  # noqa: F821  # Jupyter gives it to its configuration files
c.FileContentsManager.pre_save_hook = without_outputs
