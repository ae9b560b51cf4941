package catalog

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// unpack stages every file of a tarball, compressed by gzip or not.
func unpack(ctx context.Context, s *stage, in io.Reader) error {
	packed := &counted{ctx: ctx, r: in}
	buffered := bufio.NewReader(packed)
	var plain io.Reader = buffered
	magic, err := buffered.Peek(2)
	if err != nil {
		return refused("it is no tarball: %w", unexpected(err))
	}
	compressed := bytes.Equal(magic, []byte{0x1f, 0x8b})
	if compressed {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return refused("it is compressed, but not by gzip: %w", unexpected(err))
		}
		defer z.Close()
		plain = z
	}
	bounded := &bounded{r: plain, limits: s.limits, compressed: compressed, packed: packed}
	t := tar.NewReader(bounded)
	entries := 0
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged(err)
		}
		if entries++; entries > s.limits.entries {
			return refused("it has more than %d entries", s.limits.entries)
		}
		name, err := entryName(h.Name)
		if err != nil {
			return err
		}
		if err := kindFault(h); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeDir {
			continue // folders are made for their files
		}
		if name == "." {
			return refused("entry %q is a file", h.Name)
		}
		// Owner, time and bits of the mode (setuid among them) are dropped.
		if f, err := s.add(name, t, 0o644); err != nil {
			return damaged(err)
		} else if f.size != h.Size {
			return refused("entry %q ends early", h.Name)
		}
	}
	// What follows the end, the checksum of gzip above all, is read too: a
	// tarball that was cut there is not whole.
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return damaged(err)
	}
	return nil
}

// kindFault refuses what is neither a file nor a folder.
func kindFault(h *tar.Header) error {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return refused("entry %q is a sparse file; a package has whole files only", h.Name)
		}
	}
	what := ""
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
		return nil
	case tar.TypeLink:
		what = "a hard link"
	case tar.TypeSymlink:
		what = "a symbolic link"
	case tar.TypeChar, tar.TypeBlock:
		what = "a device"
	case tar.TypeFifo:
		what = "a pipe"
	case tar.TypeGNUSparse:
		what = "a sparse file"
	default:
		what = fmt.Sprintf("of type %q", string(h.Typeflag))
	}
	return refused("entry %q is %s; a package has files and folders only", h.Name, what)
}

// damaged says that bytes are not what they should be, unless something else
// is said already.
func damaged(err error) error {
	if err == nil || errors.Is(err, ErrPackage) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return refused("it is damaged or was cut short: %w", unexpected(err))
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// counted counts what is read of the package itself, and ends with ctx.
type counted struct {
	ctx context.Context //nolint:containedctx // of one reading
	r   io.Reader
	n   int64
	// tell is called with n as it grows; may be nil.
	tell func(n int64)
}

func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.tell != nil {
		c.tell(c.n)
	}
	return n, err
}

// bounded ends a stream that unpacks to more than a package may.
type bounded struct {
	r          io.Reader
	limits     limits
	n          int64
	compressed bool
	packed     *counted
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	// Headers and padding are beside the bytes of files.
	if most := b.limits.bytes + int64(b.limits.entries)*4096; b.n > most {
		return n, refused("it unpacks to more than %d bytes", most)
	}
	if b.compressed && b.n > b.limits.free && b.n > b.limits.ratio*b.packed.n {
		return n, refused("it unpacks to more than %d times its size", b.limits.ratio)
	}
	return n, err
}
