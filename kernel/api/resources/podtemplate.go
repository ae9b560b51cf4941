package resources

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func podTemplateKind() Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("PodTemplate")
	path := field.NewPath("template")
	return Kind{
		GVK: gvk, Resource: "podtemplates", Singular: "podtemplate",
		New:     func() runtime.Object { return &corev1.PodTemplate{} },
		NewList: func() runtime.Object { return &corev1.PodTemplateList{} },
		Strategy: &rules[*corev1.PodTemplate]{
			base: base{gvk: gvk, namespaced: true},
			prepareCreate: func(o *corev1.PodTemplate) {
				o.Generation = 1
				dropGatedFields(&o.Template.Spec, nil)
			},
			prepareUpdate: func(o, old *corev1.PodTemplate) {
				dropGatedFields(&o.Template.Spec, &old.Template.Spec)
				if !apiequality.Semantic.DeepEqual(o.Template, old.Template) {
					o.Generation = old.Generation + 1
				}
			},
			validate: func(o *corev1.PodTemplate) field.ErrorList {
				return append(validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain), ValidatePodTemplateSpec(&o.Template, PodAllowances{}, path)...)
			},
			validateUpdate: func(o, old *corev1.PodTemplate) field.ErrorList {
				return append(validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta), ValidatePodTemplateSpec(&o.Template, AllowancesOf(&old.Template), path)...)
			},
			warnCreate: func(o *corev1.PodTemplate) []string { return templateWarnings(path, &o.Template) },
			warnUpdate: func(o, old *corev1.PodTemplate) []string {
				if o.Generation == old.Generation {
					return nil
				}
				return templateWarnings(path, &o.Template)
			},
		},
		Columns: cols(nameColumn(), stringColumn("Containers", "Names of each container in the template."),
			stringColumn("Images", "Images referenced by each container in the template."),
			stringColumn("Pod Labels", "The labels for the pod template.")),
		Row: row(func(o *corev1.PodTemplate) []any {
			names, images := containerCells(o.Template.Spec.Containers)
			return []any{o.Name, names, images, labels.FormatLabels(o.Template.Labels)}
		}),
	}
}

func setPodTemplateKindDefaults(o *corev1.PodTemplate) { setPodTemplateDefaults(&o.Template) }
