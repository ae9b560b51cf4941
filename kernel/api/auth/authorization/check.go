package authorization

import authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

// Check reads an AuthorizationConfiguration as New does, and asks nobody.
func Check(file string) error {
	data, err := readFile(file)
	if err != nil {
		return err
	}
	if _, err := load(data, authorizationcel.NewDefaultCompiler(), nil); err != nil {
		return fileError(file, err)
	}
	return nil
}
