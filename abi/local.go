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

// LocalAlways is the version that makes local_set replace the value unconditionally.
const LocalAlways = -1

// SharedPrefix is the prefix of keys that all entries of a ring share.
const SharedPrefix = "run/"

// Custom is the argument of the import emit.
type Custom struct {
	Name string `json:"name"`
	Data JSON   `json:"data,omitempty"`
}
