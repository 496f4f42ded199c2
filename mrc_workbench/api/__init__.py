"""The public Python API. `mrc_workbench` exports its names, and imports a module at the first use of a name."""
