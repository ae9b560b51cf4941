package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// ruling is what a pod failure policy says of one failed pod.
type ruling struct {
	action  batchv1.PodFailurePolicyAction // empty if no rule matches
	counts  bool                           // toward the limits of back-off
	message string                         // why the Job fails, of FailJob alone
}

// rule applies the first rule of the policy, nil for none, that matches.
func rule(policy *batchv1.PodFailurePolicy, p *corev1.Pod) ruling {
	if policy == nil {
		return ruling{counts: true}
	}
	for i, r := range policy.Rules {
		var what string
		switch {
		case r.OnExitCodes != nil:
			s := failedContainer(&p.Status, r.OnExitCodes)
			if s == nil {
				continue
			}
			what = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v", s.Name, p.Namespace, p.Name, s.State.Terminated.ExitCode)
		case r.OnPodConditions != nil:
			c := matchingCondition(&p.Status, r.OnPodConditions)
			if c == nil {
				continue
			}
			what = fmt.Sprintf("Pod %s/%s has condition %v", p.Namespace, p.Name, c.Type)
		default:
			continue
		}
		switch r.Action {
		case batchv1.PodFailurePolicyActionIgnore:
			return ruling{action: r.Action}
		case batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionCount:
			return ruling{action: r.Action, counts: true}
		case batchv1.PodFailurePolicyActionFailJob:
			return ruling{action: r.Action, counts: true, message: fmt.Sprintf("%s matching %v rule at index %d", what, r.Action, i)}
		}
	}
	return ruling{counts: true}
}

// failedContainer returns a container that ended with a code that the
// requirement names: of the regular ones, else of the init containers.
func failedContainer(s *corev1.PodStatus, on *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.State.Terminated == nil || c.State.Terminated.ExitCode == 0 || on.ContainerName != nil && *on.ContainerName != c.Name {
				continue
			}
			named := slices.Contains(on.Values, c.State.Terminated.ExitCode)
			if on.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && named || on.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn && !named {
				return c
			}
		}
	}
	return nil
}

func matchingCondition(s *corev1.PodStatus, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) *corev1.PodCondition {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if slices.ContainsFunc(patterns, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return p.Type == c.Type && p.Status == c.Status
		}) {
			return c
		}
	}
	return nil
}
