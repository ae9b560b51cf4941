package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

func statefulSetKind() resources.Kind {
	gvk := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	return resources.Kind{
		GVK: gvk, Resource: "statefulsets", Singular: "statefulset", ShortNames: []string{"sts"}, Categories: []string{"all"},
		New:     func() runtime.Object { return &appsv1.StatefulSet{} },
		NewList: func() runtime.Object { return &appsv1.StatefulSetList{} },
		Strategy: resources.Rules[*appsv1.StatefulSet]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"status"}},
			PrepareCreate: func(o *appsv1.StatefulSet) {
				o.Status = appsv1.StatefulSetStatus{}
				o.Generation = 1
				dropGatedStatefulSetFields(&o.Spec, nil)
				resources.DropGatedTemplateFields(&o.Spec.Template, nil)
			},
			PrepareUpdate: func(o, old *appsv1.StatefulSet) {
				o.Status = old.Status
				dropGatedStatefulSetFields(&o.Spec, &old.Spec)
				resources.DropGatedTemplateFields(&o.Spec.Template, &old.Spec.Template)
				if !apiequality.Semantic.DeepEqual(old.Spec, o.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			Validate: func(o *appsv1.StatefulSet) field.ErrorList {
				errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSLabel)
				return append(errs, validateStatefulSetSpec(&o.Spec, specPath, lenience{})...)
			},
			ValidateUpdate: validateStatefulSetUpdate,
			WarnCreate: func(o *appsv1.StatefulSet) []string {
				w := resources.PodTemplateWarnings(specPath.Child("template"), &o.Spec.Template)
				for i := range o.Spec.VolumeClaimTemplates {
					w = append(w, resources.ClaimSpecWarnings(&o.Spec.VolumeClaimTemplates[i].Spec, specPath.Child("volumeClaimTemplates").Index(i))...)
				}
				return append(w, historyWarnings(&o.Spec)...)
			},
			WarnUpdate: func(o, old *appsv1.StatefulSet) []string {
				var w []string
				if o.Generation != old.Generation {
					w = resources.PodTemplateWarnings(specPath.Child("template"), &o.Spec.Template)
				}
				for i := range o.Spec.VolumeClaimTemplates {
					// The path of an update's warning has this step in capitals upstream.
					w = append(w, resources.ClaimSpecWarnings(&o.Spec.VolumeClaimTemplates[i].Spec, specPath.Child("volumeClaimTemplates").Index(i).Child("Spec"))...)
				}
				return append(w, historyWarnings(&o.Spec)...)
			},
		}.Strategy(),
		Status: resources.Rules[*appsv1.StatefulSet]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"spec"}},
			PrepareUpdate:  func(o, old *appsv1.StatefulSet) { o.Spec = old.Spec },
			ValidateUpdate: validateStatefulSetStatusUpdate,
		}.Strategy(),
		Columns: append([]metav1.TableColumnDefinition{
			resources.NameColumn(), resources.StringColumn("Ready", "Number of the pod with ready state"), resources.AgeColumn(),
		}, resources.ContainerColumns()...),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*appsv1.StatefulSet)
			names, images := resources.ContainerCells(o.Spec.Template.Spec.Containers)
			return []any{o.Name, fmt.Sprintf("%d/%d", o.Status.ReadyReplicas, ptr.Deref(o.Spec.Replicas, 0)), resources.AgeCell(o.CreationTimestamp), names, images}, nil
		},
		Scale: &resources.ScaleAccess{
			Replicas:    func(obj runtime.Object) int32 { return ptr.Deref(obj.(*appsv1.StatefulSet).Spec.Replicas, 0) },
			SetReplicas: func(obj runtime.Object, n int32) { obj.(*appsv1.StatefulSet).Spec.Replicas = &n },
			Status: func(obj runtime.Object) (int32, string) {
				o := obj.(*appsv1.StatefulSet)
				return o.Status.Replicas, resources.SelectorString(o.Spec.Selector)
			},
		},
	}
}

func setStatefulSetDefaults(o *appsv1.StatefulSet) {
	s := &o.Spec
	if s.PodManagementPolicy == "" {
		s.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if s.UpdateStrategy.Type == "" {
		s.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if s.UpdateStrategy.RollingUpdate == nil {
			s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && r.Partition == nil {
		r.Partition = ptr.To[int32](0)
	}
	if s.PersistentVolumeClaimRetentionPolicy == nil {
		s.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	for _, p := range []*appsv1.PersistentVolumeClaimRetentionPolicyType{
		&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, &s.PersistentVolumeClaimRetentionPolicy.WhenScaled,
	} {
		if *p == "" {
			*p = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		}
	}
	if s.Replicas == nil {
		s.Replicas = ptr.To[int32](1)
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = ptr.To[int32](10)
	}
	resources.SetPodTemplateDefaults(&s.Template)
	for i := range s.VolumeClaimTemplates {
		c := &s.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		resources.SetClaimTemplateDefaults(c)
	}
}

// dropGatedStatefulSetFields clears maxUnavailable, whose gate is off in 1.36,
// unless the stored set has it.
func dropGatedStatefulSetFields(s, old *appsv1.StatefulSetSpec) {
	if old != nil && old.UpdateStrategy.RollingUpdate != nil && old.UpdateStrategy.RollingUpdate.MaxUnavailable != nil {
		return
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		r.MaxUnavailable = nil
	}
}

func historyWarnings(s *appsv1.StatefulSetSpec) []string {
	if ptr.Deref(s.RevisionHistoryLimit, 0) >= 0 {
		return nil
	}
	return []string{"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"}
}
