package resources

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *specValidator) validateVolumes(podName string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range v.spec.Volumes {
		vol, p := &v.spec.Volumes[i], at.Index(i)
		bad := validateVolumeSource(&vol.VolumeSource, v.allow, p)
		if vol.Name == "" {
			bad = append(bad, field.Required(p.Child("name"), ""))
		} else {
			bad = append(bad, invalidAll(p.Child("name"), vol.Name, validation.IsDNS1123Label(vol.Name))...)
		}
		if _, ok := v.volumes[vol.Name]; ok {
			bad = append(bad, field.Duplicate(p.Child("name"), vol.Name))
		}
		if vol.Ephemeral != nil && podName != "" && vol.Name != "" {
			claim := podName + "-" + vol.Name
			for _, msg := range apivalidation.NameIsDNSSubdomain(claim, false) {
				bad = append(bad, field.Invalid(p.Child("name"), vol.Name, fmt.Sprintf("PVC name %q: %v", claim, msg)))
			}
		}
		if len(bad) == 0 {
			v.volumes[vol.Name] = &vol.VolumeSource
		}
		errs = append(errs, bad...)
		if c := vol.PersistentVolumeClaim; c != nil && podName != "" && slices.ContainsFunc(v.spec.Volumes, func(o corev1.Volume) bool {
			return o.Ephemeral != nil && podName+"-"+o.Name == c.ClaimName
		}) {
			errs = append(errs, field.Invalid(p.Child("persistentVolumeClaim", "claimName"), c.ClaimName, "must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return errs
}

// validateTemplateMeta: a claim made from a pod's volume gets its name from the
// two, and labels and annotations from the template.
func validateTemplateMeta(m *metav1.ObjectMeta, p *field.Path) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(m.Annotations, p.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(m.Labels, p.Child("labels"))...)
	rest := m.DeepCopy()
	rest.Annotations, rest.Labels = nil, nil
	v := reflect.ValueOf(*rest)
	for i := range v.NumField() {
		if f := v.Type().Field(i); !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			errs = append(errs, field.Forbidden(p.Child(name), "cannot be set"))
		}
	}
	return errs
}
