package store

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

// ID names this store among all: made at random with the database, and anew by a restore, since a restored store and
// the one that it was taken from go different ways.
func (s *Store) ID() string { return fmt.Sprintf("%016x", s.id) }

// identify reads the id, or makes it.
func (s *Store) identify() (err error) {
	if s.id, err = s.readMeta("id"); err != nil || s.id != 0 {
		return err
	}
	s.id = newID()
	return s.writeMeta("id", s.id, 1)
}

func newID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if id := binary.BigEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}
