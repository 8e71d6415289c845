//go:build !linux

package sandbox

import "errors"

// canMap reports whether images can be mapped.
func canMap() bool { return false }

func crowded() bool { return false }

var errNoMaps = errors.New("sandbox: this system maps no images")

func mapImage([]byte) (wholeImage, error) { return nil, errNoMaps }

func mapPages(uint64) (*heapPages, error) { return nil, errNoMaps }
