package maintenance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"pintle.dev/pintle/kernel/store"
)

// ErrNoBackup is returned for a file that is something else.
var ErrNoBackup = errors.New("it is not a backup of pintle store backup")

// placing are the beginnings of the keys that a placement goes by.
var placing = []string{
	Root + "minions/", Root + "pods/", Root + "services/specs/", Root + "controllers/", Root + "replicasets/", Root + "statefulsets/",
	Root + "persistentvolumes/", Root + "persistentvolumeclaims/", Root + "namespaces/",
}

// BackupObjects hands on the objects of a full backup, as they were at its end,
// that a scheduler looks at: nodes, pods and what plugins read. Errors:
// ErrNoBackup, *store.BackupError, *EncryptedError for one whose key is not here.
func BackupObjects(file string, d *Decoder, visit func(runtime.Object) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !store.IsBackup(head[:n]) {
		return fmt.Errorf("%s: %w", file, ErrNoBackup)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	reader, err := store.NewBackupReader(f, file)
	if err != nil {
		return err
	}
	if kind := reader.Header().Kind; kind != store.BackupFull {
		return fmt.Errorf("%s: the backup is %s: name a full one", file, kind)
	}
	values := map[string][]byte{}
	if err := reader.Blocks(func(r *store.Record) error {
		if !slices.ContainsFunc(placing, func(p string) bool { return strings.HasPrefix(r.Key, p) }) {
			return nil
		}
		if r.Value == nil {
			delete(values, r.Key)
		} else {
			values[r.Key] = bytes.Clone(r.Value)
		}
		return nil
	}); err != nil {
		return err
	}
	decoder, err := d.builtin()
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		if !bytes.HasPrefix(value, protobufPrefix) {
			if _, err := d.Object(value, 0); err != nil { // says that it is encrypted
				return fmt.Errorf("%s: %s: %w", file, key, err)
			}
		}
		o, _, err := decoder.Decode(value, nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", file, key, err)
		}
		if err := visit(o); err != nil {
			return fmt.Errorf("%s: %s: %w", file, key, err)
		}
	}
	return nil
}
