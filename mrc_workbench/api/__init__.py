"""The public Python API. `mrc_workbench` exports its names; importing one loads what it needs."""
