package spawner

func (p *program) confine() error { return nil }
