"""What is compared: experiments, how they are built, run, kept and described."""
