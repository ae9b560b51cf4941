package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// roomy is what every node has.
var roomy = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}

// named is a pod and its name as a script has it.
type named struct {
	*corev1.Pod
	shown string
}

// pods are those of the script's own namespace, in the order of their names.
func (s *scene) pods() ([]named, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []named
	for _, o := range s.objects {
		if o.GetKind() != "Pod" || o.GetNamespace() != s.name {
			continue
		}
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, pod); err != nil {
			return nil, err
		}
		all = append(all, named{pod, s.names.in(pod.Name)})
	}
	slices.SortFunc(all, func(a, b named) int {
		return cmp.Or(cmp.Compare(len(a.shown), len(b.shown)), strings.Compare(a.shown, b.shown))
	})
	return all, nil
}

// act does what agents do to pods. It waits until those that are named are there: a
// watch may be late.
func (s *scene) act(ctx context.Context, c podChange) error {
	selector, err := labels.Parse(c.Of)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stepLimit, errors.New("there are not as many pods"))
	defer cancel()
	for {
		all, err := s.pods()
		if err != nil {
			return err
		}
		chosen := c.choose(all, selector)
		if len(chosen) < max(len(c.Names), c.First, 1) {
			if err := pause(ctx, tickEvery); err != nil {
				return fmt.Errorf("%w: %d can become %s, of %q %q first %d", err, len(chosen), c.Are, c.Of, c.Names, c.First)
			}
			continue
		}
		if c.First > 0 {
			chosen = chosen[:c.First]
		}
		for _, pod := range chosen {
			if err := s.actOn(ctx, pod, c); err != nil {
				return fmt.Errorf("pod %s (%s): %w", pod.Name, pod.shown, err)
			}
		}
		return nil
	}
}

// choose takes those pods of all that a change is for.
func (c podChange) choose(all []named, selector labels.Selector) []named {
	return slices.DeleteFunc(all, func(pod named) bool {
		if len(c.Names) > 0 {
			return !slices.Contains(c.Names, pod.shown)
		}
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		// Only what is deleted can be gone, and what has ended does not change.
		return !selector.Matches(labels.Set(pod.Labels)) || (c.Are == "gone") != (pod.DeletionTimestamp != nil) || c.Are != "gone" && ended
	})
}

func (s *scene) actOn(ctx context.Context, pod named, c podChange) error {
	pods := s.world.client.CoreV1().Pods(s.name)
	if c.Are == "gone" {
		err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	if pod.Spec.NodeName == "" {
		on := s.name + "-" + cmp.Or(c.Node, "1")
		if node := nodeOfPod(pod.Pod); node != "" {
			on = node
		}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: on}}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind: %w", err)
		}
	}
	number := numberOf(pod.shown)
	if pod.Annotations[corev1.PodDeletionCost] == "" {
		// Which of equal pods is deleted is random: now the first is.
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, corev1.PodDeletionCost, number)
		if _, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	if c.Are == "bound" {
		return nil
	}
	return retry.RetryOnConflict(wait.Backoff{Duration: tickEvery, Factor: 1, Steps: 200}, func() error {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		setStatus(now, c, number)
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// numberOf is the last number in a name as it is shown, from 1.
func numberOf(shown string) int {
	shown = strings.TrimSuffix(shown, ")")
	begin := strings.LastIndexFunc(shown, func(r rune) bool { return r < '0' || r > '9' }) + 1
	n, err := strconv.Atoi(shown[begin:])
	if err != nil {
		return 200
	}
	if !strings.HasSuffix(shown[:begin], "(") {
		n++ // an ordinal
	}
	return n
}

// nodeOfPod is the node that a pod of a daemon set is made for.
func nodeOfPod(pod *corev1.Pod) string {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
					return field.Values[0]
				}
			}
		}
	}
	return ""
}

// setStatus writes what an agent writes of a pod in a state.
func setStatus(pod *corev1.Pod, c podChange, number int) {
	status := &pod.Status
	ready := c.Are == "ready"
	status.Phase = map[string]corev1.PodPhase{"ready": corev1.PodRunning, "unready": corev1.PodRunning, "succeeded": corev1.PodSucceeded, "failed": corev1.PodFailed}[c.Are]
	reason := map[string]string{"succeeded": "PodCompleted", "failed": "PodFailed", "unready": "ContainersNotReady"}[c.Are]
	setCondition(status, corev1.PodInitialized, true, "")
	setCondition(status, corev1.ContainersReady, ready, reason)
	setCondition(status, corev1.PodReady, ready, reason)
	if c.Condition != "" {
		setCondition(status, corev1.PodConditionType(c.Condition), true, "Scripted")
	}
	if status.StartTime == nil {
		now := metav1.Now()
		status.StartTime = &now
	}
	status.PodIP, status.HostIP = fmt.Sprintf("10.1.0.%d", number), "192.0.2.1"
	status.PodIPs, status.HostIPs = []corev1.PodIP{{IP: status.PodIP}}, []corev1.HostIP{{IP: status.HostIP}}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		one := corev1.ContainerStatus{Name: container.Name, Image: container.Image, ImageID: container.Image, Ready: ready, Started: &ready}
		switch c.Are {
		case "ready", "unready":
			one.State.Running = &corev1.ContainerStateRunning{StartedAt: *status.StartTime}
		default:
			one.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: c.Exit, Reason: "Completed", StartedAt: *status.StartTime, FinishedAt: metav1.Now()}
			if c.Are == "failed" {
				one.State.Terminated.Reason, one.State.Terminated.ExitCode = "Error", cmp.Or(c.Exit, 1)
			}
		}
		status.ContainerStatuses = append(status.ContainerStatuses, one)
	}
}

func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, is bool, reason string) {
	value := corev1.ConditionFalse
	if is {
		value, reason = corev1.ConditionTrue, ""
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == kind {
			if c.Status != value {
				c.LastTransitionTime = metav1.Now()
			}
			c.Status, c.Reason = value, reason
			return
		}
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: value, Reason: reason, LastTransitionTime: metav1.Now()})
}

// tick has agents start the pods that wait, and end those that are deleted.
func (s *scene) tick(ctx context.Context) error {
	all, err := s.pods()
	if err != nil {
		return err
	}
	for _, pod := range all {
		are := ""
		switch {
		case pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0:
			are = "gone"
		case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending:
			are = "ready"
		default:
			continue
		}
		if err := s.actOn(ctx, pod, podChange{Are: are}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("pod %s (%s): %w", pod.Name, pod.shown, err)
		}
	}
	return nil
}
