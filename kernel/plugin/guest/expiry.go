package guest

// Expirer is a guest whose plugins say when their answers end.
type Expirer interface {
	// Until is when the answers end that plugin i gave to the last question, in Unix
	// milliseconds; 0: time does not end them. Only of plugins that said that they do.
	Until(i int) (int64, error)
}
