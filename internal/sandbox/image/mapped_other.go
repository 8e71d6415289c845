//go:build !linux

package image

import "errors"

// CanMap returns false: images are mapped only on Linux.
func CanMap() bool { return false }

// Crowded returns false: memories use no mappings on this system.
func Crowded() bool { return false }

var errNoMappings = errors.New("sandbox: images are mapped only on Linux")

func mapImage([]byte) (wholeImage, error) { return nil, errNoMappings }

func mapPages(uint64) (*heapPages, error) { return nil, errNoMappings }
