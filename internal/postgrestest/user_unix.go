//go:build unix

package postgrestest

import "syscall"

// asUser returns attributes that start a process as another user.
func asUser(uid, gid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
}
