package policystatus

import (
	"context"
	"fmt"
	"log/slog"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	applyv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	informersv1 "k8s.io/client-go/informers/admissionregistration/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	listersv1 "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// name is upstream's, of the controller and of who owns the fields.
const name = "validatingadmissionpolicy-status"

// Checker finds expressions whose types do not fit; *validating.TypeChecker does.
type Checker interface {
	Check(policy *admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning
}

var _ Checker = (*validating.TypeChecker)(nil)

// Controller keeps the status of policies.
type Controller struct {
	policies listersv1.ValidatingAdmissionPolicyLister
	client   typedv1.ValidatingAdmissionPolicyInterface
	checker  Checker
	queue    workqueue.TypedRateLimitingInterface[string]
	log      *slog.Logger
}

// New returns a controller that hears of the informer's policies. The caller starts the informer.
func New(informer informersv1.ValidatingAdmissionPolicyInformer, client typedv1.ValidatingAdmissionPolicyInterface, checker Checker, log *slog.Logger) (*Controller, error) {
	c := &Controller{
		policies: informer.Lister(), client: client, checker: checker, log: log,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[string](), workqueue.TypedRateLimitingQueueConfig[string]{Name: name}),
	}
	add := func(obj any) {
		if policy, ok := obj.(*admissionv1.ValidatingAdmissionPolicy); ok {
			c.queue.Add(policy.Name)
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, now any) { add(now) }})
	if err != nil {
		return nil, fmt.Errorf("%s: follow policies: %w", name, err)
	}
	return c, nil
}

// Run checks policies until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	for {
		policy, stopped := c.queue.Get()
		if stopped {
			return
		}
		err := c.check(ctx, policy)
		switch {
		case err == nil:
			c.queue.Forget(policy)
		case ctx.Err() == nil:
			c.log.Warn("the types of a policy's expressions cannot be checked; tried again", "policy", policy, "error", err)
			c.queue.AddRateLimited(policy)
		}
		c.queue.Done(policy)
	}
}

func (c *Controller) check(ctx context.Context, named string) error {
	policy, err := c.policies.Get(named)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if policy.Generation <= policy.Status.ObservedGeneration {
		return nil
	}
	found := applyv1.TypeChecking()
	// What it checks is shared with the informer's other readers.
	for _, w := range c.checker.Check(policy.DeepCopy()) {
		found.WithExpressionWarnings(applyv1.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	status := applyv1.ValidatingAdmissionPolicyStatus().WithObservedGeneration(policy.Generation).WithTypeChecking(found)
	_, err = c.client.ApplyStatus(ctx, applyv1.ValidatingAdmissionPolicy(named).WithStatus(status), metav1.ApplyOptions{FieldManager: name, Force: true})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
