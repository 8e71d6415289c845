package sandbox

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// A file of wazero's begins with this, then come the length of wazero's version in a
// byte and that, the number of functions in 4 bytes, the place of each in 8, the length
// of the code in 8, the code, and its CRC-32 in 4. More follows. Numbers are little
// endian.
const machineCodeMagic = "WAZEVO"

// sumMachineCode adds to sum what has to be checked of a file with machine code: all of
// it but the code, if the file is as wazero writes it, and otherwise all of it. wazero
// itself refuses code that does not have the checksum which stands behind it, and that
// is a part of the rest. Reading the code once more took longer than wazero does for the
// check.
func sumMachineCode(sum io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head, code, err := machineCode(f, info.Size())
	if err != nil {
		return err
	}
	if head != nil {
		if _, err := fmt.Fprintln(sum, "without code:", info.Size()); err != nil {
			return err
		}
		if _, err := sum.Write(head); err != nil {
			return err
		}
	}
	at := int64(len(head)) + code
	_, err = io.Copy(sum, io.NewSectionReader(f, at, info.Size()-at))
	return err
}

// machineCode reads what stands before the code in a file of so many bytes, and returns
// how long that is; nothing and 0 if that is not to be found.
func machineCode(f io.ReaderAt, size int64) (head []byte, code int64, err error) {
	const fixed, number, place, crc = int64(len(machineCodeMagic)) + 1, 4, 8, 4
	begin := make([]byte, min(size, fixed+255+number))
	if _, err := f.ReadAt(begin, 0); err != nil {
		return nil, 0, err
	}
	if int64(len(begin)) < fixed || string(begin[:len(machineCodeMagic)]) != machineCodeMagic {
		return nil, 0, nil
	}
	at := fixed + int64(begin[fixed-1])
	if at+number > int64(len(begin)) {
		return nil, 0, nil
	}
	at += number + place*int64(binary.LittleEndian.Uint32(begin[at:]))
	if at+place+crc > size {
		return nil, 0, nil
	}
	head = make([]byte, at+place)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, 0, err
	}
	length := binary.LittleEndian.Uint64(head[at:])
	if length > uint64(size-at-place-crc) {
		return nil, 0, nil
	}
	return head, int64(length), nil
}
