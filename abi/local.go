package abi

// LocalAlways is the version that makes local_set and store_set replace the value unconditionally.
const LocalAlways = -1

// SharedPrefix is the prefix of the run-local keys that all entries of a ring share.
const SharedPrefix = "run/"
