package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/util/retry"
)

// maxDisrupted bounds the evictions of a budget that its controller has not
// seen yet; further ones are refused.
const maxDisrupted = 2000

// evictionRetry is how long a conflict is tried again: ten seconds.
var evictionRetry = wait.Backoff{Steps: 20, Duration: 500 * time.Millisecond, Factor: 1.0, Jitter: 0.1}

var evictionKind = policyv1.SchemeGroupVersion.WithKind("Eviction")

// evictionREST is pods/eviction: a delete that a disruption budget may refuse.
type evictionREST struct {
	// pods updates by the status strategy, since an eviction sets a condition.
	pods    *genericregistry.Store
	budgets policyclient.PodDisruptionBudgetsGetter
}

var (
	_ rest.NamedCreater             = (*evictionREST)(nil)
	_ rest.GroupVersionKindProvider = (*evictionREST)(nil)
	_ rest.GroupVersionAcceptor     = (*evictionREST)(nil)
)

func (r *evictionREST) New() runtime.Object { return &policyv1.Eviction{} }
func (r *evictionREST) Destroy()            {}
func (r *evictionREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return evictionKind
}
func (r *evictionREST) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv == policyv1.SchemeGroupVersion
}

func (r *evictionREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	ev, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
	}
	if name != ev.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	if o := ev.DeleteOptions; o != nil && o.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *o.IgnoreStoreReadErrorWithClusterBreakingPotential {
		return nil, apierrors.NewInvalid(evictionKind.GroupKind(), name, field.ErrorList{field.Invalid(
			field.NewPath("deleteOptions").Child("ignoreStoreReadErrorWithClusterBreakingPotential"), true,
			"can not be set for pod eviction, try after removing the option")})
	}
	deletion, err := deletionOf(ev, options)
	if err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, ev.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	pod, gone, err := r.deleteUnguarded(ctx, name, deletion)
	if err != nil {
		return nil, err
	}
	if gone {
		return &metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	return r.deleteGuarded(ctx, pod, deletion)
}

// deletionOf joins the dry-run of the request with the eviction's options.
func deletionOf(ev *policyv1.Eviction, options *metav1.CreateOptions) (*metav1.DeleteOptions, error) {
	switch o := ev.DeleteOptions; {
	case o == nil:
		return &metav1.DeleteOptions{DryRun: options.DryRun}, nil
	case len(o.DryRun) == 0:
		o.DryRun = options.DryRun
		return o, nil
	case len(options.DryRun) == 0 || slices.Equal(options.DryRun, o.DryRun):
		return o, nil
	default:
		return nil, fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", options.DryRun, o.DryRun)
	}
}

func hasVersion(o *metav1.DeleteOptions) bool {
	return o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
}

func atVersion(o *metav1.DeleteOptions, version string) *metav1.DeleteOptions {
	o = o.DeepCopy()
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	o.Preconditions.ResourceVersion = &version
	return o
}

// deleteUnguarded deletes a pod that disrupts nothing: one that has ended, has
// not begun, or is going away. Else it returns the pod.
func (r *evictionREST) deleteUnguarded(ctx context.Context, name string, deletion *metav1.DeleteOptions) (pod *corev1.Pod, gone bool, err error) {
	again := apierrors.IsConflict
	if hasVersion(deletion) {
		again = func(error) bool { return false }
	}
	err = retry.OnError(evictionRetry, again, func() error {
		obj, err := r.pods.Get(ctx, name, &metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod = obj.(*corev1.Pod)
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || !pod.DeletionTimestamp.IsZero()
		if !ended && pod.Status.Phase != corev1.PodPending {
			return nil
		}
		o := deletion
		if !ended && !hasVersion(deletion) {
			// It may become ready, and guarded, in between.
			o = atVersion(deletion, pod.ResourceVersion)
		}
		if err := r.markAndDelete(ctx, name, o); err != nil {
			return err
		}
		gone = true
		return nil
	})
	return pod, gone, err
}

func (r *evictionREST) deleteGuarded(ctx context.Context, pod *corev1.Pod, deletion *metav1.DeleteOptions) (runtime.Object, error) {
	budgets, err := r.budgetsOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	if len(budgets) > 1 {
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: 500,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}, nil
	}
	pinned := false
	var name string
	if len(budgets) == 1 {
		budget := &budgets[0]
		name = budget.Name
		if !isReady(pod) {
			always := budget.Spec.UnhealthyPodEvictionPolicy != nil && *budget.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
			pinned = always || (budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0)
		}
		if !pinned {
			if err := r.take(ctx, pod, budget, dryrun.IsDryRun(deletion.DryRun)); err != nil {
				return nil, err
			}
		}
	}
	o := deletion
	if pinned {
		// Only while the pod is still the unready one that was looked at.
		o = atVersion(deletion, pod.ResourceVersion)
	}
	if err := r.markAndDelete(ctx, pod.Name, o); err != nil {
		if apierrors.IsConflict(err) && pinned && !hasVersion(deletion) {
			return nil, stillProcessed(name)
		}
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (r *evictionREST) budgetsOf(ctx context.Context, pod *corev1.Pod) ([]policyv1.PodDisruptionBudget, error) {
	all, err := r.budgets.PodDisruptionBudgets(pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []policyv1.PodDisruptionBudget
	for _, b := range all.Items {
		// A selector that cannot be read matches nothing.
		if sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && sel.Matches(labels.Set(pod.Labels)) {
			out = append(out, b)
		}
	}
	return out, nil
}

// take counts the disruption against the budget, or says why it may not be.
func (r *evictionREST) take(ctx context.Context, pod *corev1.Pod, budget *policyv1.PodDisruptionBudget, dryRun bool) error {
	client := r.budgets.PodDisruptionBudgets(pod.Namespace)
	fresh := true
	err := retry.RetryOnConflict(evictionRetry, func() error {
		if !fresh {
			var err error
			if budget, err = client.Get(ctx, budget.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		fresh = false
		b := budget.DeepCopy()
		if err := allows(b); err != nil {
			return err
		}
		b.Status.DisruptionsAllowed--
		if b.Status.DisruptionsAllowed == 0 {
			setDisruptionAllowed(b)
		}
		if dryRun {
			return nil
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[pod.Name] = metav1.Now()
		_, err := client.UpdateStatus(ctx, b, metav1.UpdateOptions{})
		return err
	})
	if wait.Interrupted(err) {
		return apierrors.NewTimeoutError(fmt.Sprintf("couldn't update PodDisruptionBudget %q due to conflicts", budget.Name), 10)
	}
	return err
}

func stillProcessed(budget string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget),
	})
	return err
}

func allows(b *policyv1.PodDisruptionBudget) error {
	gr := policyv1.Resource("poddisruptionbudget")
	st := &b.Status
	switch {
	case st.ObservedGeneration < b.Generation:
		return stillProcessed(b.Name)
	case st.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(gr, b.Name, fmt.Errorf("pdb disruptions allowed is negative"))
	case len(st.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(gr, b.Name, fmt.Errorf("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case st.DisruptionsAllowed > 0:
		return nil
	}
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	c := meta.FindStatusCondition(st.Conditions, policyv1.DisruptionAllowedCondition)
	refused := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	var msg string
	switch {
	case refused && c.Reason == policyv1.SyncFailedReason:
		msg = fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case st.CurrentHealthy <= st.DesiredHealthy:
		msg = fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, st.DesiredHealthy, st.CurrentHealthy)
	case refused:
		msg = fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason, c.Message)
	default:
		msg = fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: msg})
	return err
}

// setDisruptionAllowed brings the condition in line with the count.
func setDisruptionAllowed(b *policyv1.PodDisruptionBudget) {
	c := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
		Reason: policyv1.InsufficientPodsReason, ObservedGeneration: b.Status.ObservedGeneration}
	if b.Status.DisruptionsAllowed > 0 {
		c.Status, c.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	meta.SetStatusCondition(&b.Status.Conditions, c)
}

// markAndDelete sets the DisruptionTarget condition and deletes the pod.
func (r *evictionREST) markAndDelete(ctx context.Context, name string, o *metav1.DeleteOptions) error {
	if !dryrun.IsDryRun(o.DryRun) {
		info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			pod := old.(*corev1.Pod).DeepCopy()
			gr := schema.GroupResource{Resource: "Pod"}
			if p := o.Preconditions; p != nil {
				if p.UID != nil && *p.UID != "" && *p.UID != pod.UID {
					return nil, apierrors.NewConflict(gr, pod.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, pod.UID))
				}
				if p.ResourceVersion != nil && *p.ResourceVersion != "" && *p.ResourceVersion != pod.ResourceVersion {
					return nil, apierrors.NewConflict(gr, pod.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, pod.ResourceVersion))
				}
			}
			pod.Status.Conditions = withCondition(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
			})
			return pod, nil
		})
		obj, _, err := r.pods.Update(ctx, name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		if hasVersion(o) {
			o = atVersion(o, obj.(*corev1.Pod).ResourceVersion)
		}
	}
	_, _, err := r.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, o)
	return err
}
