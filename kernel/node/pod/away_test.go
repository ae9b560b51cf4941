package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/kernel/node/volume"
)

// A pod that ran starts again with the files it has only where the API does not answer: not with those of a volume that
// this machine cannot write or find.
func TestAway(t *testing.T) {
	call := func(err error) error { return &url.Error{Op: "Get", URL: "https://127.0.0.1:6443/api", Err: err} }
	refused := call(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	full := &fs.PathError{Op: "write", Path: "/secret", Err: syscall.ENOSPC}
	volumeOf := func(err error) error { return &volume.SetUpError{Volume: "v", Err: fmt.Errorf("secret a/b: %w", err)} }
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"connection refused": {volumeOf(refused), true},
		"no answer in time":  {volumeOf(call(context.DeadlineExceeded)), true},
		"cut off":            {volumeOf(call(io.EOF)), true},
		"two volumes":        {errors.Join(volumeOf(refused), volumeOf(call(io.EOF))), true},
		"disk full":          {volumeOf(full), false},
		"no such path":       {volumeOf(&fs.PathError{Op: "stat", Path: "/host", Err: syscall.ENOENT}), false},
		"errno":              {volumeOf(syscall.EIO), false},
		"one is local":       {errors.Join(volumeOf(refused), volumeOf(full)), false},
		"one inside is":      {errors.Join(volumeOf(errors.Join(refused, full))), false},
		"an answer":          {volumeOf(apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "b")), false},
		"an answer in it":    {volumeOf(call(apierrors.NewInternalError(errors.New("x")))), false},
		"an address":         {volumeOf(&url.Error{Op: "parse", URL: ":", Err: errors.New("missing protocol scheme")}), false},
		"words":              {volumeOf(errors.New("unknown")), false},
	} {
		if got := away(tt.err); got != tt.want {
			t.Errorf("%s: %v: %t", name, tt.err, got)
		}
	}
}
