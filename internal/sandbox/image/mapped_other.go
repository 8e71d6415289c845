//go:build !linux

package image

import "errors"

// CanMap reports whether images can be mapped: only on Linux.
func CanMap() bool { return false }

// Crowded reports whether memories use most of the mappings of this process: never here.
func Crowded() bool { return false }

var errNoMappings = errors.New("sandbox: images are mapped only on Linux")

func mapImage([]byte) (wholeImage, error) { return nil, errNoMappings }

func mapPages(uint64) (*heapPages, error) { return nil, errNoMappings }
