"""Files and folders that survive a kill: temporary folders that are cleaned up, files of users that are set aside."""
