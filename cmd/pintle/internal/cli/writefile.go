package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile lets write fill a file that appears, durable, when it is complete.
func WriteFile[T any](path string, overwrite bool, write func(io.Writer) (T, error)) (out T, err error) {
	if _, err := os.Lstat(path); err == nil && !overwrite {
		return out, UsageFault(fmt.Errorf("%s is there already: choose another name, or --force to replace it", path))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	out, err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return out, err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return out, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return out, err
	}
	err = errors.Join(dir.Sync(), dir.Close())
	return out, err
}
