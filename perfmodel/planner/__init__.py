"""Every way to lay out a job, priced by the functions of `predict`: columns, masks and reasons, no object for each candidate."""
