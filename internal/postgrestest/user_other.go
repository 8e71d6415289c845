//go:build !unix

package postgrestest

import "syscall"

// asUser returns nil. No process of this system has user id 0, so it is not called.
func asUser(uint32, uint32) *syscall.SysProcAttr { return nil }
