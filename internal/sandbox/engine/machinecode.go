package engine

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// machineCodeMagic begins each file of machine code in wazero's cache. The rest of the
// file, with little-endian integers, is:
//
//	1 byte     length of wazero's version
//	…          wazero's version
//	4 bytes    number of functions
//	8 bytes    for each function: its offset in the code
//	8 bytes    length of the code
//	…          the code
//	4 bytes    CRC-32 of the code
//	…          more, which is not interpreted here
const machineCodeMagic = "WAZEVO"

// ChecksumFile writes to sum everything in the file at path that has to be verified before wazero may read the file.
// In a file with the layout of machine code, it omits the code. It writes the CRC-32 of the code, which wazero
// compares with the code when it reads the file. Reading the code a second time here took longer than wazero's own
// check.
func ChecksumFile(sum io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header, code, err := readHeader(f, info.Size())
	if err != nil {
		return err
	}
	if header != nil {
		if _, err := fmt.Fprintln(sum, "without code:", info.Size()); err != nil {
			return err
		}
		if _, err := sum.Write(header); err != nil {
			return err
		}
	}
	at := int64(len(header)) + code
	_, err = io.Copy(sum, io.NewSectionReader(f, at, info.Size()-at))
	return err
}

// readHeader returns the bytes before the code in a file of size bytes, and the length of the code. Both are zero if
// the file does not have the layout of machine code.
func readHeader(f io.ReaderAt, size int64) (header []byte, code int64, err error) {
	const fixed, number, offset, crc = int64(len(machineCodeMagic)) + 1, 4, 8, 4
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
	at += number + offset*int64(binary.LittleEndian.Uint32(begin[at:]))
	if at+offset+crc > size {
		return nil, 0, nil
	}
	header = make([]byte, at+offset)
	if _, err := f.ReadAt(header, 0); err != nil {
		return nil, 0, err
	}
	length := binary.LittleEndian.Uint64(header[at:])
	if length > uint64(size-at-offset-crc) {
		return nil, 0, nil
	}
	return header, int64(length), nil
}
