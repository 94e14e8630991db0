class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class WorkerCrashedError(RayError):
    pass
