//go:build !unix

package guestbuild

import "sync"

var building sync.Mutex

// lock keeps the builds of this process apart; those of others it cannot.
func lock(string) (unlock func(), err error) {
	building.Lock()
	return building.Unlock, nil
}
