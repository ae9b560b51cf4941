package artifact

import (
	"context"
	"fmt"
)

// Idler is an Artifact whose plugins may say that they have nothing to say about a
// class (pintle_idle of ABI.md): a module, and the source.
type Idler interface {
	// Idle reports whether each node fits, or has the raw score 0, whatever it is.
	Idle(ctx context.Context, plugin int, class uint32) (bool, error)
}

var (
	_ Idler = (*instance)(nil)
	_ Idler = (*source)(nil)
)

// Idle implements Idler; a module that does not export the question says no.
func (i *instance) Idle(ctx context.Context, plugin int, class uint32) (bool, error) {
	const name = "pintle_idle"
	if i.calls[name] == nil {
		return false, nil
	}
	answer, err := i.call(ctx, name, uint64(uint32(plugin)), uint64(class))
	if err != nil {
		return false, err
	}
	switch code := int32(answer); {
	case code == 0 || code == 1:
		return code == 1, nil
	case code > 1:
		return false, fmt.Errorf("%s: %d is neither 0, 1 nor a status of sdk/ABI.md", name, code)
	}
	return false, i.answered(ctx, name, answer)
}

func (s *source) Idle(_ context.Context, plugin int, class uint32) (bool, error) {
	idle, err := s.guest.Idle(plugin, class)
	return idle, refused(err)
}

// Allocator is an Artifact whose memory the host has pieces of: a module.
type Allocator interface {
	Allocate(ctx context.Context, size int) (pointer uint32, err error)
	Free(ctx context.Context, pointer uint32) error
}

var _ Allocator = (*instance)(nil)

// Allocate implements Allocator.
func (i *instance) Allocate(ctx context.Context, size int) (uint32, error) {
	var b buffer
	if err := i.reserve(ctx, &b, size); err != nil {
		return 0, err
	}
	return b.pointer, nil
}

// Free implements Allocator.
func (i *instance) Free(ctx context.Context, pointer uint32) error {
	_, err := i.call(ctx, "pintle_free", uint64(pointer))
	return err
}
