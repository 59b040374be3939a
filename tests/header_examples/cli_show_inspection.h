extern yk_inspection inspection;
