package volumebindingprebind

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/plugins/predicates/volumebinding"
	"pintle.dev/pintle/plugins/reserves/volumebindingreserve"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/controller"
)

// Name is the name by which configurations switch the plugin.
const Name = "VolumeBindingPreBind"

// margin is what is left of a call's time to answer in.
const margin = 500 * time.Millisecond

// New returns a function that makes the plugin, over the ledger that
// VolumeBindingReserve writes.
func New(ledger *volumebindingreserve.Ledger) func() sdk.PreBind {
	return func() sdk.PreBind {
		b := &binder{ledger: ledger, connect: connect}
		b.timeout.Store(int64(10 * time.Minute))
		return sdk.PreBind{Name: Name, Pods: sdk.PodsWithClaims, Configure: b.configure, PreBind: b.preBind}
	}
}

// binder serves one instance. Calls come several at once.
type binder struct {
	ledger  *volumebindingreserve.Ledger
	timeout atomic.Int64 // a time.Duration
	connect func(socket string) (kubernetes.Interface, error)
}

func connect(socket string) (kubernetes.Interface, error) {
	if socket == "" {
		return nil, errors.New("there is no API for this plugin: its manifest has to give it rules")
	}
	return kubernetes.NewForConfig(controller.ConfigFor(socket, Name))
}

func (b *binder) configure(data []byte) error {
	config, err := volumebinding.ReadConfig(data)
	if err == nil {
		b.timeout.Store(int64(time.Duration(*config.BindTimeoutSeconds) * time.Second))
	}
	return err
}

func (b *binder) preBind(binding *sdk.Binding) sdk.Status {
	plan := b.ledger.Plan(binding.Pod.UID)
	if plan == nil || plan.Node != binding.NodeName {
		return sdk.Fail(fmt.Errorf("nothing is known of the volumes reserved for pod %s/%s", binding.Pod.Namespace, binding.Pod.Name))
	}
	if len(plan.Bindings)+len(plan.Provisions) > 0 {
		if err := b.bind(binding, plan); err != nil {
			return sdk.Fail(err)
		}
	}
	b.ledger.Forget(binding.Pod.UID)
	return sdk.Status{}
}

func (b *binder) bind(binding *sdk.Binding, plan *volumebindingreserve.Plan) error {
	if binding.Node == nil {
		return fmt.Errorf("failed to get node %q: it is gone", binding.NodeName)
	}
	client, err := b.connect(binding.Socket)
	if err != nil {
		return err
	}
	ctx, cancel := b.within(binding.Context)
	defer cancel()
	work := &work{client: client, binding: binding, plan: plan}
	if err := work.write(ctx); err != nil {
		return err
	}
	if err := work.wait(ctx); err != nil {
		return fmt.Errorf("binding volumes: %w", err)
	}
	return nil
}

// within ends with the configured time-out or, if that is earlier, in time for the
// call to be answered.
func (b *binder) within(ctx context.Context) (context.Context, context.CancelFunc) {
	until := time.Now().Add(time.Duration(b.timeout.Load()))
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-margin).Before(until) {
		until = deadline.Add(-margin)
	}
	return context.WithDeadline(ctx, until)
}
