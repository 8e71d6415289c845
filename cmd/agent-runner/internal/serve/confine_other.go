//go:build !linux

package serve

import "errors"

// A confinement lists the access of a confined server. This system does not support confinement.
type confinement struct {
	write, sockets []string
	connect        []uint16
}

func (c *confinement) enforce() error { return errors.ErrUnsupported }
