package abi

// LocalValue is the reply of local_get.
type LocalValue struct {
	Value   JSON  `json:"value"`
	Version int64 `json:"version"`
}

// LocalVersion is the reply of local_set.
type LocalVersion struct {
	Version int64 `json:"version"`
}

// LocalAlways is the version with which local_set sets whatever was there.
const LocalAlways = -1

// SharedPrefix begins the keys that all entries of a ring share.
const SharedPrefix = "run/"

// Custom is what a module gives to emit.
type Custom struct {
	Name string `json:"name"`
	Data JSON   `json:"data,omitempty"`
}
