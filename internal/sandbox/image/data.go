package image

// A Place is a range of bytes in a memory.
type Place struct{ At, Length uint32 }

// Data is the content of a new memory: the bytes at each place, and zeros elsewhere. Places contain
// no pointers, because a Go module has tens of thousands of places, and each garbage collection
// would follow their pointers.
type Data struct {
	Places []Place
	Bytes  []byte // content of all places, concatenated
}

// Write copies the data to a memory that contains all places.
func (d *Data) Write(memory []byte) {
	content := d.Bytes
	for _, p := range d.Places {
		Copy(memory[p.At:], content[:p.Length])
		content = content[p.Length:]
	}
}
