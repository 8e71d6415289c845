//go:build !linux

package sandbox

import "errors"

// canMap reports whether images can be mapped.
func canMap() bool { return false }

func mapImage([]byte) (pageImage, error) {
	return nil, errors.New("sandbox: this system maps no images")
}
