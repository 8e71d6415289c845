package wasm

// NameSection returns the content of the module's section "name", which has the names of functions, or
// nil if there is none. The module need not be valid. The result shares memory with it.
func NameSection(module []byte) []byte {
	d := reader{b: module, pos: min(8, len(module))}
	for d.err == nil && d.remaining() > 0 {
		id := d.u8("section")
		size := d.u32("the section's size")
		if d.err != nil || uint64(size) > uint64(d.remaining()) {
			return nil
		}
		section := reader{b: d.b[d.pos : d.pos+int(size)]}
		d.pos += int(size)
		if id != sectionCustom {
			continue
		}
		name := section.u32("the length of the section's name")
		if section.err == nil && name == 4 && section.remaining() >= 4 &&
			string(section.b[section.pos:section.pos+4]) == "name" {
			return section.b[section.pos+4:]
		}
	}
	return nil
}
