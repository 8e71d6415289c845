package main

import (
	"archive/tar"
	"archive/zip"
	"io"
	"os"
	"strings"
	"time"
)

// A file is a file in an archive, or a folder if its name ends in a slash.
type file struct {
	name  string
	mode  int64
	owner int // user and group
	data  []byte
}

// writeTar writes a tar archive. All files have the same time.
func writeTar(w io.Writer, files []file, modified time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)),
			ModTime: modified, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeZip writes a zip archive. All files have the same time.
func writeZip(w io.Writer, files []file, modified time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: modified}
		h.SetMode(os.FileMode(f.mode))
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// writeFile creates the named file, and calls write with it.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
