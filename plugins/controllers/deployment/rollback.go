package deployment

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rollbackTo is the revision that an annotation asks to go back to, 0 for the
// one before the current. It is what is left of spec.rollbackTo of the first
// versions of the API (DEP-7); kubectl writes the old template instead.
func rollbackTo(dep *appsv1.Deployment) (number int64, asked bool) {
	number, err := strconv.ParseInt(dep.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return number, err == nil
}

// rollback puts the template of an earlier revision into the deployment, and
// in any case takes the wish away. The change that it is brings the deployment
// here again.
func (r *rollout) rollback(ctx context.Context, number int64) error {
	if err := r.find(ctx, true); err != nil {
		return err
	}
	sets := r.all()
	event, reason, message := corev1.EventTypeWarning, "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."
	if number == 0 {
		if number = lastRevision(sets); number == 0 {
			message = "Unable to find last revision."
		}
	}
	next := r.dep.DeepCopy()
	if i := slices.IndexFunc(sets, func(rs *appsv1.ReplicaSet) bool { return number != 0 && revision(rs) == number }); i >= 0 {
		template := &sets[i].Spec.Template
		if sameTemplate(template, &r.dep.Spec.Template) {
			reason, message = "DeploymentRollbackTemplateUnchanged", fmt.Sprintf("The rollback revision contains the same template as current deployment %q", next.Name)
		} else {
			event, reason, message = corev1.EventTypeNormal, "DeploymentRollback", fmt.Sprintf("Rolled back deployment %q to revision %d", next.Name, number)
			next.Spec.Template = *template.DeepCopy()
			delete(next.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
			restoreAnnotations(next, sets[i])
		}
	}
	delete(next.Annotations, appsv1.DeprecatedRollbackTo)
	if _, err := r.client.AppsV1().Deployments(next.Namespace).Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return err
	}
	r.Recorder.Event(r.dep, event, reason, message)
	return nil
}

// lastRevision is the second highest, 0 if there is none.
func lastRevision(sets []*appsv1.ReplicaSet) int64 {
	var numbers []int64
	for _, rs := range sets {
		numbers = append(numbers, revision(rs))
	}
	slices.Sort(numbers)
	if len(numbers) < 2 {
		return 0
	}
	return numbers[len(numbers)-2]
}
