package artifact

import (
	"context"
	"errors"
	"fmt"
)

// maxReview bounds an AdmissionResponse, as the kernel does.
const maxReview = 4 << 20

// object calls name with a plugin and a text, and returns the i64 that it answers.
func (i *instance) object(ctx context.Context, name string, plugin int, data []byte) (uint64, error) {
	if i.calls[name] == nil {
		return 0, fmt.Errorf("the module exports no %s (see sdk/ABI.md)", name)
	}
	if err := i.reserve(ctx, &i.data, len(data)); err != nil {
		return 0, err
	}
	copy(i.view(i.data, len(data)), data)
	return i.call(ctx, name, uint64(uint32(plugin)), uint64(i.data.pointer), uint64(len(data)))
}

func (i *instance) Review(ctx context.Context, plugin int, request []byte) ([]byte, error) {
	span, err := i.object(ctx, "pintle_admit", plugin, request)
	if err != nil {
		return nil, err
	}
	if span != 0 {
		return i.text(span, maxReview)
	}
	why, err := i.fault(ctx)
	if err != nil {
		return nil, err
	}
	if why == "" {
		return nil, errors.New("pintle_admit answers 0, and pintle_error does not say why")
	}
	return nil, fmt.Errorf("%w: %s", ErrRefused, why)
}

var _ Reconciler = (*instance)(nil)

// Reconcile implements Reconciler.
func (i *instance) Reconcile(ctx context.Context, plugin int, key []byte) error {
	result, err := i.object(ctx, "pintle_reconcile", plugin, key)
	if err != nil {
		return err
	}
	if int64(result) >= 0 {
		return nil
	}
	if int64(result) < -6 {
		return fmt.Errorf("pintle_reconcile: status %d is not in sdk/ABI.md", int64(result))
	}
	return i.answered(ctx, "pintle_reconcile", uint64(uint32(int32(int64(result)))))
}
