//go:build !unix

package guestbuild

import "sync"

var building sync.Mutex

// lock serializes builds within this process until unlock is called. It cannot exclude other
// processes.
func lock(string) (unlock func(), err error) {
	building.Lock()
	return building.Unlock, nil
}
