# The lease, and the iterator that asks it before each message. Part of _kernel.pyx.

cdef extern from *:
    """
    #include <time.h>
    #if defined(CLOCK_MONOTONIC_COARSE)
    #define PYKLIENT_LEASE_CLOCK CLOCK_MONOTONIC_COARSE  /* a few milliseconds late, and needs no system call */
    #elif defined(CLOCK_UPTIME_RAW)
    #define PYKLIENT_LEASE_CLOCK CLOCK_UPTIME_RAW  /* the clock of time.monotonic() on macOS */
    #else
    #define PYKLIENT_LEASE_CLOCK CLOCK_MONOTONIC
    #endif
    """
    clockid_t PYKLIENT_LEASE_CLOCK


cdef class Lease:
    """The time until which messages may be handed out, in seconds of ``time.monotonic``."""

    cdef public double until

    def __init__(self, double until=float("inf")):
        self.until = until

    cdef inline bint is_over(self) noexcept:
        cdef timespec now
        clock_gettime(PYKLIENT_LEASE_CLOCK, &now)
        return <double>now.tv_sec + 1e-9 * <double>now.tv_nsec >= self.until

    def ended(self):
        """Return True if no message may be handed out now."""
        return self.is_over()


@cython.final
cdef class LeasedIterator:
    """An iterator over *messages* that stops while *lease* has ended, and may then be continued."""

    cdef object messages
    cdef Lease lease

    def __init__(self, messages, Lease lease):
        self.messages = iter(messages)
        self.lease = lease

    def __iter__(self):
        return self

    def __next__(self):
        if self.lease.is_over():
            raise StopIteration
        return next(self.messages)
