package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	typed "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"

	kinds "pintle.dev/pintle/kernel/api/resources/flowcontrol"
)

const (
	// maintainPeriod is how often the objects are looked at, retryPeriod after a failure.
	maintainPeriod, retryPeriod = time.Minute, 10 * time.Second
	// fieldManager owns what is written here, under upstream's name.
	fieldManager = "api-priority-and-fairness-config-producer-v1"
	// maxWrites are under way at a time.
	maxWrites = 8
)

// Maintain keeps the objects that every cluster has, until ctx is done. Somebody
// has called Ensure before.
func Maintain(ctx context.Context, client typed.FlowcontrolV1Interface, log *slog.Logger) {
	wait := retryPeriod
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		wait = maintainPeriod
		if err := Ensure(ctx, client); err != nil && ctx.Err() == nil {
			log.Warn("the objects of API priority and fairness are not all as they should be; tried again", "error", err)
			wait = retryPeriod
		}
	}
}

// Ensure creates what is missing, brings what nobody edited to what this version
// says, and deletes what former versions had. An object is edited when its
// annotation apf.kubernetes.io/autoupdate-spec says false, or when it has none and
// its spec has changed since it was made. The mandatory ones cannot be edited.
func Ensure(ctx context.Context, client typed.FlowcontrolV1Interface) error {
	levels, err := client.PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list priority levels: %w", err)
	}
	schemas, err := client.FlowSchemas().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list flow schemas: %w", err)
	}
	// Levels first: a schema that leads nowhere is marked as such.
	return errors.Join(
		ensureAll(ctx, client.PriorityLevelConfigurations(), levelKind, pointers(levels.Items),
			bootstrap.SuggestedPriorityLevelConfigurations, bootstrap.MandatoryPriorityLevelConfigurations),
		ensureAll(ctx, client.FlowSchemas(), schemaKind, pointers(schemas.Items),
			suggestedSchemas(), bootstrap.MandatoryFlowSchemas))
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// object is one of the two types.
type object interface {
	comparable
	metav1.Object
	runtime.Object
}

// writer is what is needed of a kind's client.
type writer[T object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// kind is how an object is copied and compared.
type kind[T object] struct {
	copy func(T) T
	// sameSpec compares what is there with what should be; withSpec makes it so.
	sameSpec func(have, want T) bool
	withSpec func(have, want T) T
}

var schemaKind = kind[*flowcontrolv1.FlowSchema]{
	copy: (*flowcontrolv1.FlowSchema).DeepCopy,
	sameSpec: func(have, want *flowcontrolv1.FlowSchema) bool {
		want = want.DeepCopy()
		kinds.SetFlowSchemaDefaults(want)
		return apiequality.Semantic.DeepEqual(have.Spec, want.Spec)
	},
	withSpec: func(have, want *flowcontrolv1.FlowSchema) *flowcontrolv1.FlowSchema {
		out := have.DeepCopy()
		out.Spec = *want.Spec.DeepCopy()
		return out
	},
}

var levelKind = kind[*flowcontrolv1.PriorityLevelConfiguration]{
	copy: (*flowcontrolv1.PriorityLevelConfiguration).DeepCopy,
	sameSpec: func(have, want *flowcontrolv1.PriorityLevelConfiguration) bool {
		want = withShares(have, want.DeepCopy())
		kinds.SetPriorityLevelDefaults(want)
		return apiequality.Semantic.DeepEqual(have.Spec, want.Spec)
	},
	withSpec: func(have, want *flowcontrolv1.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
		out := have.DeepCopy()
		out.Spec = withShares(have, want.DeepCopy()).Spec
		return out
	},
}

// withShares keeps what an operator lends of the exempt level, the one thing that
// may be changed of it.
func withShares(have, want *flowcontrolv1.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	if want.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt && have.Spec.Exempt != nil {
		want.Spec.Exempt = have.Spec.Exempt.DeepCopy()
	}
	return want
}

func ensureAll[T object](ctx context.Context, client writer[T], k kind[T], have, suggested, mandatory []T) error {
	there, wanted := map[string]T{}, map[string]bool{}
	for _, o := range have {
		there[o.GetName()] = o
	}
	// One sync of the store takes writes that come together.
	var writes errgroup.Group
	writes.SetLimit(maxWrites)
	ensure := func(list []T, always bool) {
		for _, want := range list {
			wanted[want.GetName()] = true
			writes.Go(func() error { return ensure(ctx, client, k, there[want.GetName()], want, always) })
		}
	}
	ensure(suggested, false)
	ensure(mandatory, true)
	for _, o := range have {
		if ours, err := strconv.ParseBool(o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]); err != nil || !ours || wanted[o.GetName()] {
			continue
		}
		writes.Go(func() error {
			uid, version := o.GetUID(), o.GetResourceVersion()
			err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("delete %T %s, which is no longer one of this server's: %w", o, o.GetName(), err)
			}
			return nil
		})
	}
	return writes.Wait()
}

// ensure makes one object what it should be. Somebody who writes it at the same
// time is left alone: the next round looks again.
func ensure[T object](ctx context.Context, client writer[T], k kind[T], have, want T, always bool) error {
	var none T
	if have == none {
		_, err := client.Create(ctx, k.copy(want), metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %s: %w", want, want.GetName(), err)
		}
		return nil
	}
	update := always || !edited(have)
	marked, err := strconv.ParseBool(have.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	mark := err != nil || marked != update
	change := update && !k.sameSpec(have, want)
	if !mark && !change {
		return nil
	}
	next := k.copy(have)
	if change {
		next = k.withSpec(have, want)
	}
	if mark {
		annotations := next.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(update)
		next.SetAnnotations(annotations)
	}
	if _, err := client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update %T %s: %w", want, want.GetName(), err)
	}
	return nil
}

// edited says whether an operator keeps an object as it is.
func edited(o metav1.Object) bool {
	if update, err := strconv.ParseBool(o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey]); err == nil {
		return !update
	}
	return o.GetGeneration() != 1
}
