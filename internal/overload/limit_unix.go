//go:build unix

package overload

import "syscall"

func here() *system { return &system{root: "/", limits: resourceLimits} }

// resourceLimits returns the process's limits of address space and data in bytes, 0 if unknown.
func resourceLimits() (address, data uint64) {
	var as, d syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &as) == nil {
		address = uint64(as.Cur) //nolint:unconvert // int64 on FreeBSD
	}
	if syscall.Getrlimit(syscall.RLIMIT_DATA, &d) == nil {
		data = uint64(d.Cur) //nolint:unconvert // int64 on FreeBSD
	}
	return address, data
}
